"""Tools around training: checkpointing, DLPack, data."""
