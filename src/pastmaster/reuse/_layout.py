"""The numbers of a selector by name: rows of ``arms``, places in ``memory`` and in ``settings``.

``arms`` and ``memory`` are written to JSON, so their order is fixed. Where two selectors keep different numbers in the
same place, that place has a name for each of them.
"""

# rows of ``arms``, one column to an arm
ACTIVE = 0  # 1 while the arm may be chosen
COUNT = 1  # own episodes told
TOTAL = 2  # their payoffs, summed
LOG_WEIGHT = 3  # EXP-3
LOSS = 3  # Tsallis-INF: the estimated loss, summed over episodes
MEAN_RETURN = 3  # policy reuse
WEIGHT = 4  # EXP-3: exp(log-weight - shift), 0 for an arm out of play
PROBABILITY = 5  # at the ask of the episode at hand
DROPPED = 6  # the episode after which the arm was eliminated, -1 while it is in play
SCATTER = 7  # regret balancing: the squared distances of own payoffs from their mean, summed
OPEN = 8  # episodes asked for, neither told nor cancelled
SEEN = 9  # evidence: own episodes, in the order of all asks up to the first that is open
SEEN_TOTAL = 10  # evidence: their payoffs, summed
SEEN_SQUARES = 11  # evidence: their payoffs squared, summed
N_ROWS = 12  # that are written to JSON

# rows of ``arms`` that regret balancing adds; what is worth in the learner's column is the best that is known
PRIOR_MEAN = 12  # of what an arm was worth in all old tasks
PRIOR_VARIANCE = 13
MEAN = 14  # of what an arm is worth in this task, as far as is known
VARIANCE = 15
SPREAD = 16  # the variance of one return
ANY = 17  # how likely its returns are if the arm may be worth anything, as a logarithm
CHANGED = 18  # 1 if it has returns that the likelihoods do not know yet
POSSIBLE = 19  # 1 if it may be the best source
FREE = 20  # mean and variance of what it is worth if it is odd or the task like none, and how likely that is
REST = 21
CHANCE = 22
EXPERIENCE = 23  # from here on N rows for each of these, a row to an old task:
VALUES = 0  # what each source was worth; in the learner's column, the best that is known
ERRORS = 1  # the variances of these
SPREADS = 2  # the variance of one return, below 0 if it is not known
LIKELIHOODS = 3  # how likely the task makes the source's returns, as a logarithm; in the learner's column, its weight
TABLES = 4

# places in ``memory``
EPISODE = 0  # episodes told
ASKED = 1  # episodes asked for; in files without open episodes: the arm not yet told, or -1
SHIFT = 2  # EXP-3: the log-weight of a weight of 1
NORMALISER = 2  # Tsallis-INF: the x that makes probabilities sum to 1
CLIPPED = 3  # returns clipped into the bounds
NEXT_CHECK = 4  # the number of episodes told at which sources are next compared
N_MEMORY = 5

# places in ``memory`` that regret balancing adds
REPEATS = 5  # episodes of a source after its first
SQUARES = 6  # their squared distances from the mean of that source, summed
NOISE = 7  # the variance of a return that the likelihoods are computed with
ARM = 8  # what the model chose last
DECIDE_AT = 9  # the number of episodes told at which it chooses again
LEADING = 10  # what the best arm tried so far is worth
POTENTIAL = 11  # how much more than that the task may be worth, in expectation
SEARCHING = 12  # 1 while a source on trial promises enough to keep the learner waiting
GUARD = 13  # episodes that the guard asked for
RUNS = 14  # the sources' episodes told
EARNED = 15  # the sources' payoffs, summed
AWAITED = 16  # their open episodes
RATE = 17  # the coefficients of the sources (17) and of the learner (18)
BEFORE = 19  # the learner's episodes (19) and payoffs (20) when it had half of those at MARK
MARK = 21  # its episodes (21) and payoffs (22) when their number was last a power of 2
REPAYING = 23  # 1 if the learner seemed to repay what it loses when that was last looked at
HOPE = 24  # what the best arm tried so far may be worth, as long as its noise is hardly known
SURE = 25  # what the best source is surely worth: the largest lower confidence bound so far
N_BALANCING = 26

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
KAPPA = 11  # regret balancing: what the learner may lose, in units of sqrt(t)
PREFERENCE = 12  # regret balancing: how much more often the one runs that seems best
TEMPERATURE = 13  # policy reuse: at the first episode
TEMPERATURE_STEP = 14  # policy reuse: its rise per episode
HORIZON = 15  # regret balancing: the episodes planned, 0 if that is not known
DEVIATION_OF_TASKS = 16  # the variance of what an arm is worth among tasks that are alike
ODD = 17  # how often an arm is worth something else in a task that is alike
UNLIKE = 18  # how likely a task is like no old one
NOISE_BEFORE = 19  # the variance of a return in old tasks, or where that is not known, next to nothing
DEVIATION_OF_NOISE = 20  # the variance, among tasks that are alike, of the logarithm of the variance of a return
N_SETTINGS = 21

EXP3, TSALLIS, BALANCING, POLICY_REUSE = 0, 1, 2, 3  # RULE
NEVER, PAPER, ANYTIME = 0, 1, 2  # ELIMINATION
