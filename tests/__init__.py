"""Tests of kshunt: unit, property, contract, real Kafka, dashboard and benchmarks."""
