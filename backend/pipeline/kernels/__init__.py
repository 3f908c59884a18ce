"""What works on the arrays of many replicas together: numpy and pyarrow, and no Spark.

Spark's workers run these, so they import nothing of ours but each other.
"""
