#include "sim/sim_report.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/hash.h"

const char *fault_text(enum fault fault)
{
    static const char *const texts[] = {
#define X(code, what) [code] = (what),
        FAULT_LIST(X)
#undef X
    };
    assert(fault < FAULT_COUNT);
    return texts[fault];
}

void report_violation(struct report *report, const char *format, ...)
{
    if (report->failed)
        return;
    report->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(report->violation, sizeof(report->violation), format, args);
    va_end(args);
    report_trace(report, "VIOLATION %s", report->violation);
}

void report_trace(const struct report *report, const char *format, ...)
{
    if (!report->trace)
        return;
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void report_mix(struct report *report, uint64_t number)
{
    report->hash =
        hash_stable_seeded((struct slice){(const char *)&number, sizeof(number)}, report->hash);
}

void report_add(struct report *total, const struct report *run)
{
    total->ops += run->ops;
    total->batches += run->batches;
    total->acknowledged += run->acknowledged;
    total->refused += run->refused;
    total->repeated += run->repeated;
    total->lost += run->lost;
    total->recoveries += run->recoveries;
    total->cold += run->cold;
    total->loads += run->loads;
    total->dropped += run->dropped;
    total->flushes += run->flushes;
    total->proofs += run->proofs;
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        total->hits[i] += run->hits[i];
}
