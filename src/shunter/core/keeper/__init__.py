"""The keeper: judges a cluster by a policy and proposes plans. Observations go in; conditions and proposals come out."""
