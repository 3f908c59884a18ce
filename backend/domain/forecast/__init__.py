"""One model of copying: when copies that share what limits them will have arrived."""
