package sim_test

func dial(t *trial) { echo(t) }
