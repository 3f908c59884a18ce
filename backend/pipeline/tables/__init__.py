"""One module a table: a pure function from DataFrame to DataFrame.

What depends on earlier rows takes a state, a DataFrame with one row a replica, and gives one back.
Cutting the samples at any tick and handing the state on gives the rows of one whole run, so
streaming and batch agree by construction.
"""
