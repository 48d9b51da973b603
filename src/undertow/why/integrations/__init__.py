"""`why` in other tools: pytest, Lightning, the Trainer of transformers, notebooks."""
