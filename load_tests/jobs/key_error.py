"""Reads a key that its configuration does not have."""

configuration = {"learning_rate": 0.1}
print(configuration["batch_size"])
