"""AMD devices, torch device type `cuda` where `torch.version.hip` is set."""
