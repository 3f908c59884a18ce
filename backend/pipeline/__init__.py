"""The data pipeline on PySpark: from recorded samples to rates, stalls and pairs of brokers.

Nothing but the `kshunt pipeline` command loads it, so the dashboard never starts a Java machine.
Each table is a pure function from DataFrame to DataFrame (`tables`), in the part of the API that
classic Spark and Spark Connect share.
"""
