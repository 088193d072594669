"""What the paper measured and what it is compared with: its experiments, rivals of other authors, opponents at poker.

``experiments`` runs what the paper says and judges it, sentence by sentence; ``report`` makes a
page of that. Nothing here is needed to use ``pastmaster``, of which only public names are used.
"""
