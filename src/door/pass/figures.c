/* figures.c - how many ops a pass has answered, how they ended, and how long they took. */
#include "door/pass/pass_own.h"

void pass_count_failure(struct pass *pass, const struct op *op)
{
    enum metrics_result result = metrics_result_of(op->code);
    if (result == METRICS_OK)
        return;
    if (op_is_write(op->kind)) {
        gauge_add(&pass->stats.writes[result], 1);
        pass->answered.failed_writes++;
    } else {
        gauge_add(&pass->stats.reads[result], 1);
        pass->answered.failed_reads++;
    }
}

bool pass_refuses_stale(struct pass *pass)
{
    gauge_add(pass->refuses_stale ? &pass->stats.stale_refused : &pass->stats.stale_served, 1);
    return pass->refuses_stale;
}

static void add_flight(struct pass *pass, struct pass_flight flight)
{
    if (pass->flight_count == PASS_FLIGHTS) {
        size_t last = (pass->first_flight + PASS_FLIGHTS - 1) % PASS_FLIGHTS;
        pass->flights[last].ticket = flight.ticket;
        pass->flights[last].writes += flight.writes;
        return;
    }
    pass->flights[(pass->first_flight + pass->flight_count++) % PASS_FLIGHTS] = flight;
}

void pass_count_answered(struct pass *pass, uint64_t start_ns, uint64_t now_ns)
{
    const struct pass_answered *answered = &pass->answered;
    uint64_t reads = answered->ops - answered->writes;
    gauge_add(&pass->stats.reads[METRICS_OK], reads - answered->failed_reads);
    gauge_add(&pass->stats.writes[METRICS_OK], answered->writes - answered->failed_writes);
    if (reads > 0)
        histogram_observe(&pass->stats.read_time, now_ns - start_ns, reads);
    if (answered->writes > 0)
        add_flight(pass, (struct pass_flight){answered->ticket, start_ns, answered->writes});
    pass->answered = (struct pass_answered){0};
}

void pass_count_safe(struct pass *pass, uint64_t safe)
{
    uint64_t now_ns = 0;
    while (pass->flight_count > 0 && pass->flights[pass->first_flight].ticket <= safe) {
        const struct pass_flight *flight = &pass->flights[pass->first_flight];
        if (service_is_stuck(pass->service, flight->ticket, flight->ticket))
            return;
        if (now_ns == 0)
            now_ns = env_monotonic_ns(pass->service->env);
        histogram_observe(&pass->stats.write_time, now_ns - flight->start_ns, flight->writes);
        pass->first_flight = (pass->first_flight + 1) % PASS_FLIGHTS;
        pass->flight_count--;
    }
}

void pass_add_figures(const struct pass *pass, struct metrics_door *to)
{
    for (unsigned i = 0; i < METRICS_RESULTS; i++) {
        to->reads[i] += gauge_read(&pass->stats.reads[i]);
        to->writes[i] += gauge_read(&pass->stats.writes[i]);
    }
    to->stale_served += gauge_read(&pass->stats.stale_served);
    to->stale_refused += gauge_read(&pass->stats.stale_refused);
    histogram_merge(&to->read_time, &pass->stats.read_time);
    histogram_merge(&to->write_time, &pass->stats.write_time);
}
