"""What a broker answers: one module for each family of APIs, each with `handlers(world)`."""
