"""Studies that shaped the package: training, cryptanalysis, security. Not shipped."""
