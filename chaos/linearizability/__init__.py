"""Has Porcupine, a linearizability checker that others wrote, judge simulated runs."""
