"""How hyperparameters are chosen.

Objectives (`objectives`) judge fits on rows they have not seen; searches (`search`)
look for the best, on a fixed problem (`problem`), within bounds (`parameters`).
"""
