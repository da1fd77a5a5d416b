"""Sub-room `app.evaluation`: the policy file, the observation of a cluster, and one evaluation of it."""
