/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/kernels/measure.h"

#include "bench/median.h"

#include <immintrin.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PEAK_LOOPS = 50000, COPY_BYTES = 256 << 20, THREADS_MAX = 256, IDLE_US = 1000 };
static const double IDLE_SECONDS_MAX = 0.2;

static clockid_t the_clock = CLOCK_MONOTONIC;

void measure_count_own_time(void) { the_clock = CLOCK_PROCESS_CPUTIME_ID; }

static double read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double measure_now(void) { return read_clock(the_clock); }
double measure_wall(void) { return read_clock(CLOCK_MONOTONIC); }

void measure_wait_idle(void) {
    double limit = measure_wall() + IDLE_SECONDS_MAX, start, used;
    do {
        start = read_clock(CLOCK_PROCESS_CPUTIME_ID);
        usleep(IDLE_US);
        used = read_clock(CLOCK_PROCESS_CPUTIME_ID) - start;
    } while (used > 0.1e-6 * IDLE_US && measure_wall() < limit);
}

double measure_median(const double *values, size_t count) {
    double sorted[MEASURE_ROUNDS_MAX];
    if (count > MEASURE_ROUNDS_MAX) count = MEASURE_ROUNDS_MAX;
    memcpy(sorted, values, count * sizeof *sorted);
    return median_of(sorted, count);
}

double measure_geometric_mean(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += log(values[i]);
    return count ? exp(sum / (double)count) : 0;
}

bool measure_pin(unsigned count) {
    cpu_set_t now, wanted;
    CPU_ZERO(&wanted);
    if (sched_getaffinity(0, sizeof now, &now)) return false;
    for (size_t i = 0; i < CPU_SETSIZE && count; i++) {
        if (!CPU_ISSET(i, &now)) continue;
        CPU_SET(i, &wanted);
        count--;
    }
    return count == 0 && sched_setaffinity(0, sizeof wanted, &wanted) == 0;
}

/* 24 or 12 chains: more than latency times units on any CPU with these vectors. They are named
 * variables, not an array, so that they stay in registers; the empty asm keeps each multiply-add.
 */
#define CHAIN_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define CHAIN_24(X)                                                                                \
    CHAIN_12(X) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#define DECLARE_512(i) __m512 x##i = _mm512_set1_ps((float)i);
#define DECLARE_256(i) __m256 x##i = _mm256_set1_ps((float)i);
#define STEP_512(i)                                                                                \
    x##i = _mm512_fmadd_ps(x##i, a, b);                                                            \
    __asm__ volatile("" : "+v"(x##i));
#define STEP_256(i)                                                                                \
    x##i = _mm256_fmadd_ps(x##i, a, b);                                                            \
    __asm__ volatile("" : "+x"(x##i));

__attribute__((target("avx512f"))) static double peak_avx512(void) {
    const __m512 a = _mm512_set1_ps(1.0000001f), b = _mm512_set1_ps(-1e-7f);
    CHAIN_24(DECLARE_512)
    double start = measure_now();
    for (int n = 0; n < PEAK_LOOPS; n++) {
        CHAIN_24(STEP_512)
    }
    return 2.0 * 16 * 24 * PEAK_LOOPS / (measure_now() - start);
}

__attribute__((target("avx2,fma"))) static double peak_avx2(void) {
    const __m256 a = _mm256_set1_ps(1.0000001f), b = _mm256_set1_ps(-1e-7f);
    CHAIN_12(DECLARE_256)
    double start = measure_now();
    for (int n = 0; n < PEAK_LOOPS; n++) {
        CHAIN_12(STEP_256)
    }
    return 2.0 * 8 * 12 * PEAK_LOOPS / (measure_now() - start);
}

static void *run_peak(void *user) {
    double *speed = user;
    *speed = __builtin_cpu_supports("avx512f") ? peak_avx512() : peak_avx2();
    return NULL;
}

double measure_peak(unsigned threads) {
    pthread_t handles[THREADS_MAX];
    double speeds[THREADS_MAX], sum = 0;
    unsigned started = 0;
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    while (started + 1 < threads &&
           pthread_create(&handles[started], NULL, run_peak, &speeds[started]) == 0)
        started++;
    run_peak(&speeds[started]);
    for (unsigned i = 0; i < started; i++) pthread_join(handles[i], NULL);
    for (unsigned i = 0; i <= started; i++) sum += speeds[i];
    return sum;
}

double measure_copy(void) {
    static char *from, *to;
    if (!from) {
        from = malloc(COPY_BYTES);
        to = malloc(COPY_BYTES);
        if (!from || !to) return 0;
        memset(from, 1, COPY_BYTES);
        memset(to, 2, COPY_BYTES);
    }
    double start = measure_now();
    memcpy(to, from, COPY_BYTES);
    __asm__ volatile("" : : "r"(to) : "memory");
    return 2.0 * COPY_BYTES / (measure_now() - start);
}

double measure_call(void (*call)(void *user), void *user, double seconds) {
    call(user);
    double start = measure_now(), now = start;
    size_t calls = 0, next = 1;
    do {
        for (; calls < next; calls++) call(user);
        now = measure_now();
        double each = (now - start) / (double)calls, left = seconds - (now - start);
        size_t more = each > 0 ? (size_t)(left > 0 ? left / each : 0) : calls;
        next = calls + (more > calls ? calls : more) + (left > 0);
    } while (now - start < seconds);
    return (now - start) / (double)calls;
}

uint64_t measure_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float *measure_floats(uint64_t *state, size_t count) {
    size_t size = (count * sizeof(float) + 4095) / 4096 * 4096;
    float *data = aligned_alloc(4096, size ? size : 4096);
    if (!data) {
        fprintf(stderr, "no memory for %zu numbers\n", count);
        exit(5);
    }
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(measure_random(state) >> 40) * 0x1p-23f - 1.0f;
    return data;
}

double measure_difference(const float *a, const float *b, size_t count) {
    double worst = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        double distance = fabs((double)a[i] - (double)b[i]);
        if (!(distance <= worst)) worst = distance; /* a NaN is kept */
        if (fabs((double)b[i]) > largest) largest = fabs((double)b[i]);
    }
    return largest > 0 ? worst / largest : worst;
}
