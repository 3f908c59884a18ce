"""From a picture of a cluster and an operator's question to plans, previews and rehearsals."""
