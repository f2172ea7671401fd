"""Calls a method that an object of another version had."""

model = object()
model.forward()
