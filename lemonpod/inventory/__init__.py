"""What can be served right now: models, the manifests behind them, and their plans."""
