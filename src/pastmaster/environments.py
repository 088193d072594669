"""The environments that ``gymnasium.make`` finds once pastmaster is imported; their code is loaded when one is made."""

import gymnasium as gym

CART_POLE_STEPS = 500

gym.register("pastmaster/Tabular-v0", "pastmaster.tasks.tabular_env:TabularEnv")
gym.register("pastmaster/WindyCorridor-v0", "pastmaster.domains.windy_corridor:WindyCorridorEnv")
gym.register("pastmaster/ColouredGrid-v0", "pastmaster.domains.coloured_grid:ColouredGridEnv")
gym.register("pastmaster/Surveillance-v0", "pastmaster.domains.surveillance:SurveillanceEnv")
gym.register(
    "pastmaster/CartPole-v0",
    "pastmaster.domains.cart_pole:CartPoleEnv",
    vector_entry_point="pastmaster.domains.cart_pole:CartPoleVectorEnv",
    max_episode_steps=CART_POLE_STEPS,
)
gym.register(
    "pastmaster/JaxCartPole-v0",
    "pastmaster.domains.cart_pole:jax_environment",
    max_episode_steps=CART_POLE_STEPS,
)
