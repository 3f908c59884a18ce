"""`kshunt doctor`: whether this machine and a cluster have what kshunt needs."""
