"""What `torch.nn.functional` adds: layers, losses, attention, images."""
