"""The numbers of a selector by name: rows of ``arms``, places in ``memory`` and in ``settings``.

``arms`` and ``memory`` are written to JSON, so their order is fixed. Where two selectors keep different numbers in the
same place, that place has a name for each of them.
"""

# rows of ``arms``, one column to an arm
ACTIVE = 0  # 1 while the arm may be chosen
COUNT = 1  # own episodes told
TOTAL = 2  # their payoffs, summed
LOG_WEIGHT = 3  # EXP-3
LOSS = 3  # Tsallis-INF and regret balancing: the estimated loss, summed over episodes
MEAN_RETURN = 3  # policy reuse
WEIGHT = 4  # EXP-3: exp(log-weight - shift), 0 for an arm out of play
PROBABILITY = 5  # at the ask of the episode at hand
DROPPED = 6  # the episode after which the arm was eliminated, -1 while it is in play
DEVIATION = 7  # confidence sequence: sum of (x_n - mean_n)^2
SLOPE = 8  # confidence sequence: sum of lambda_n
WEIGHTED = 9  # confidence sequence: sum of lambda_n x_n
CHARGE = 10  # confidence sequence: sum of (x_n - mean_{n-1})^2 (-ln(1 - lambda_n) - lambda_n)
OPEN = 11  # episodes asked for, neither told nor cancelled
SEEN = 12  # evidence: own episodes, in the order of all asks up to the first that is open
SEEN_TOTAL = 13  # evidence: their payoffs, summed
N_ROWS = 14
FORMER_ROWS = 11  # in files from when one episode could be open

# places in ``memory``
EPISODE = 0  # episodes told
ASKED = 1  # episodes asked for; in files without open episodes: the arm not yet told, or -1
SHIFT = 2  # EXP-3: the log-weight of a weight of 1
NORMALISER = 2  # Tsallis-INF and regret balancing: the x that makes probabilities sum to 1
CLIPPED = 3  # returns clipped into the bounds
NEXT_CHECK = 4  # the number of episodes told at which sources are next compared
N_MEMORY = 5

# places in ``settings``, which are made anew by every constructor
RULE = 0  # one of EXP3 .. POLICY_REUSE
LOWER = 1  # the bounds on a return
UPPER = 2
LEAST = 3  # the bounds with room for rounding
MOST = 4
CLIP = 5  # 1 to move returns onto the bounds
ELIMINATION = 6  # one of NEVER, PAPER, ANYTIME
DELTA = 7
CHECK_EVERY = 8
BETA = 9  # EXP-3
REDUCED_VARIANCE = 10  # Tsallis-INF: 1 for the reduced-variance estimator
KAPPA = 11  # regret balancing
FLOOR = 12  # regret balancing
TEMPERATURE = 13  # policy reuse: at the first episode
TEMPERATURE_STEP = 14  # policy reuse: its rise per episode
N_SETTINGS = 15

EXP3, TSALLIS, BALANCING, POLICY_REUSE = 0, 1, 2, 3  # RULE
NEVER, PAPER, ANYTIME = 0, 1, 2  # ELIMINATION
