"""What the outside world may ask of a runner, who may be the runner, and what operators have set."""
