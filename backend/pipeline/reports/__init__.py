"""The report of an operation: from results on disk to Markdown and HTML, without Spark.

`kshunt.backend.pipeline.reports.operation_results` takes the rows of one operation from the
results, `operation_history` works out what happened, `report_document` says it as a document
of blocks, and `markdown` and `html` draw that.
"""
