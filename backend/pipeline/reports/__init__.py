"""The report of an operation: from results on disk to Markdown and HTML, without Spark.

`kshunt.backend.pipeline.reports.material` takes the rows of one operation from the results,
`course` works out what happened, `writing` says it as a document of blocks, and `markdown` and
`html` draw that.
"""
