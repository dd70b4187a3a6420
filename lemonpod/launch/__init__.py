"""How to start an engine. Pure: manifest + model + host facts + port make one launch plan."""
