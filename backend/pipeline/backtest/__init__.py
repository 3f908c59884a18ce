"""How good the forecasts of recorded operations were."""
