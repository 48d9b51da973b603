"""`why` where people work: pytest, Lightning, the Trainer of transformers, notebooks."""
