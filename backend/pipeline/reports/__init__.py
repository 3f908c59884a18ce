"""Reports of an operation or a week: from results on disk to Markdown and HTML, without Spark.

`kshunt.backend.pipeline.reports.operation_results` takes the rows of one operation from the
results, `operation_history` works out what happened, and `report_document` says it as a document
of blocks. Of a week `week_results`, `rolled_week`, `week_rates` and `week_operations` do the
former, and `week_document` and `week_sections` the latter. `formats` has what draws a document.
"""
