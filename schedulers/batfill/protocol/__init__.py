"""What both ends of Batsim's protocol share: the scheduler that answers and the simulation that asks."""
