"""`kshunt kafka-topics`."""
