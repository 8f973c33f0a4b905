"""How hyperparameters are chosen."""
