/* EXP-3-Transfer by hand: what pastmaster's compiled episodes do, for a deterministic task with one start state, c
 * deterministic sources, elimination as printed in the paper, and an epsilon-greedy Q-learner with constant step size
 * and epsilon that learns from its own episodes. On the same three streams of NumPy's PCG64 it gives the same arms,
 * returns and Q, bit for bit. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

typedef unsigned __int128 wide;

typedef struct {
    uint64_t state_high, state_low, increment_high, increment_low;
} Seed;

typedef struct {
    wide state, increment;
} Stream;

typedef struct {
    int64_t n_states, n_actions, start, horizon;
    double gamma;
    const int32_t *next_state; /* [S, A] */
    const double *reward;      /* [S, A] */
    const uint8_t *terminated; /* [S, A] */
    int64_t n_sources;
    const int32_t *sources; /* [c, S] */
    double lower, upper, beta, delta;
    int64_t check_every;
    double step_size, epsilon;
    int64_t episodes;
    Seed selector, environment, learner;
} Problem;

static const double SHIFT_LIMIT = 40.0;
static const double ROUNDING = 1e-9;

static Stream stream(Seed seed) {
    Stream s = {(wide)seed.state_high << 64 | seed.state_low, (wide)seed.increment_high << 64 | seed.increment_low};
    return s;
}

/* PCG64, XSL-RR, and a double from its upper 53 bits */
static inline double uniform(Stream *s) {
    const wide multiplier = (wide)2549297995355413924ULL << 64 | 4865540595714422341ULL;
    s->state = s->state * multiplier + s->increment;
    uint64_t folded = (uint64_t)(s->state >> 64) ^ (uint64_t)s->state;
    unsigned turn = (unsigned)(s->state >> 122);
    uint64_t bits = folded >> turn | folded << (-turn & 63);
    return (double)(bits >> 11) * 0x1p-53;
}

static inline int64_t epsilon_greedy(const double *q, int64_t n_actions, double epsilon, double u) {
    if (u < epsilon) {
        int64_t action = (int64_t)(u / epsilon * (double)n_actions);
        return action < n_actions ? action : n_actions - 1;
    }
    double best = q[0];
    int64_t ties = 1, action = 0;
    for (int64_t a = 1; a < n_actions; a++) {
        if (q[a] > best) {
            best = q[a], ties = 1, action = a;
        } else if (q[a] == best) {
            ties++;
        }
    }
    if (ties > 1) {
        int64_t pick = (int64_t)((u - epsilon) / (1.0 - epsilon) * (double)ties);
        if (pick > ties - 1) pick = ties - 1;
        while (q[action] != best || pick > 0) {
            if (q[action] == best) pick--;
            action++;
        }
    }
    return action;
}

/* makes weights relative to the largest in play, and returns its logarithm */
static double shift_weights(int64_t n_arms, const int64_t *dropped, const double *score, double *weight) {
    double shift = -INFINITY;
    for (int64_t i = 0; i < n_arms; i++) {
        if (dropped[i] < 0) shift = fmax(shift, score[i]);
    }
    for (int64_t i = 0; i < n_arms; i++) weight[i] = dropped[i] < 0 ? exp(score[i] - shift) : 0.0;
    return shift;
}

static double source_episode(const Problem *p, int64_t arm, Stream *environment) {
    const int32_t *policy = p->sources + arm * p->n_states;
    double total = 0.0, discount = 1.0;
    int64_t s = p->start;
    uniform(environment); /* the start state */
    for (int64_t step = 0; step < p->horizon; step++) {
        int64_t place = s * p->n_actions + policy[s];
        total += discount * p->reward[place];
        discount *= p->gamma;
        if (p->terminated[place]) break;
        s = p->next_state[place];
    }
    return total;
}

static double own_episode(const Problem *p, double *Q, Stream *environment, Stream *learner, int64_t *steps) {
    const int64_t n_actions = p->n_actions;
    double total = 0.0, discount = 1.0;
    int64_t s = p->start, step = 0;
    int over = 0;
    uniform(environment); /* the start state */
    while (!over && step < p->horizon) {
        int64_t place = s * n_actions + epsilon_greedy(Q + s * n_actions, n_actions, p->epsilon, uniform(learner));
        int64_t following = p->next_state[place];
        double reward = p->reward[place], target = reward;
        over = p->terminated[place];
        total += discount * reward;
        discount *= p->gamma;
        if (!over) {
            const double *q = Q + following * n_actions;
            double best = q[0];
            for (int64_t a = 1; a < n_actions; a++) best = q[a] > best ? q[a] : best;
            target = reward + p->gamma * best;
        }
        Q[place] += p->step_size * (target - Q[place]);
        s = following;
        step++;
    }
    *steps += step;
    return total;
}

/* Q [S, A] is learned in place; writes returns and arms [T]; returns the learner's steps, or -1 if a return is outside
 * the bounds, or -2 without memory. */
int64_t play(const Problem *p, double *Q, double *returns, int32_t *arms) {
    const int64_t c = p->n_sources, n_arms = c + 1;
    Stream selector = stream(p->selector), environment = stream(p->environment), learner = stream(p->learner);
    double *room = malloc((size_t)(6 * n_arms) * sizeof(double));
    int64_t *dropped = malloc((size_t)n_arms * sizeof(int64_t));
    if (!room || !dropped) {
        free(room), free(dropped);
        return -2;
    }
    double *weight = room, *score = weight + n_arms, *chance = score + n_arms;
    double *count = chance + n_arms, *sum = count + n_arms, *constant = sum + n_arms;
    for (int64_t i = 0; i < n_arms; i++) {
        weight[i] = 1.0, score[i] = count[i] = sum[i] = 0.0, constant[i] = NAN, dropped[i] = -1;
    }
    const double slack = ROUNDING * fmax(fabs(p->lower), fabs(p->upper));
    const double level = c ? log(2.0 * (double)c / p->delta) : 0.0;
    double shift = 0.0;
    int64_t steps = 0;
    for (int64_t t = 0; t < p->episodes; t++) {
        double total = 0.0, n_active = 0.0, reached = 0.0, u = uniform(&selector);
        for (int64_t i = 0; i < n_arms; i++) {
            if (dropped[i] < 0) total += weight[i], n_active += 1.0;
        }
        const double scale = (1.0 - p->beta) / total, floor = p->beta / n_active;
        int64_t arm = c;
        for (int64_t i = 0; i < n_arms; i++) {
            chance[i] = dropped[i] < 0 ? scale * weight[i] + floor : 0.0;
        }
        for (int64_t i = 0; i < n_arms; i++) {
            if (chance[i] > 0.0) {
                arm = i;
                reached += chance[i];
                if (u < reached) break;
            }
        }
        double outcome;
        if (arm == c) {
            outcome = own_episode(p, Q, &environment, &learner, &steps);
        } else {
            if (isnan(constant[arm])) constant[arm] = source_episode(p, arm, &environment);
            outcome = constant[arm];
        }
        returns[t] = outcome, arms[t] = (int32_t)arm;
        if (!(p->lower - slack <= outcome && outcome <= p->upper + slack)) {
            steps = -1;
            break;
        }
        const double x = fmin(fmax((outcome - p->lower) / (p->upper - p->lower), 0.0), 1.0);
        score[arm] += p->beta * (x / chance[arm]) / (double)n_arms;
        if (score[arm] > shift + SHIFT_LIMIT) {
            shift = shift_weights(n_arms, dropped, score, weight);
        } else {
            weight[arm] = exp(score[arm] - shift);
        }
        count[arm] += 1.0, sum[arm] += x;
        if ((t + 1) % p->check_every) continue;
        int any = 0;
        for (int64_t k = 0; k < c; k++) {
            if (dropped[k] >= 0 || count[k] == 0.0) continue;
            for (int64_t j = 0; j < c; j++) {
                if (j == k || (dropped[j] >= 0 && dropped[j] != t + 1) || count[j] == 0.0) continue;
                const double half = 0.5 * (sum[j] / count[j] - sum[k] / count[k]);
                if (half > sqrt(level / (2.0 * fmin(count[j], count[k])))) {
                    dropped[k] = t + 1;
                    any = 1;
                    break;
                }
            }
        }
        if (any) shift = shift_weights(n_arms, dropped, score, weight);
    }
    free(room), free(dropped);
    return steps;
}
