#include "server/help.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/config.h"

#define LINE_WIDTH 84u
#define HELP_FROM  6u /* column of the explanations */

static const char opening[] =
    "tallyd " TALLY_VERSION " counts things for applications: likes, dislikes, votes, views.\n"
    "Redis clients and the web can talk to it, and what it has acknowledged is kept.\n"
    "\n"
    "  tallyd [--NAME VALUE | --NAME=VALUE]...\n"
    "\n"
    "Every setting is a flag --keys-kept 24h, a variable TALLY_KEYS_KEPT=24h, or a line\n"
    "\"keys-kept 24h\" of the file that --config names. A flag is stronger than a variable,\n"
    "and a variable is stronger than the file.\n"
    "Sizes end in KiB, MiB or GiB, times in ms, s, m, h or d.\n"
    "Settings marked with * may change while running: send SIGHUP.\n";

static const char closing[] =
    "\n"
    "Signals\n"
    "  SIGTERM, SIGINT   answer what has arrived, make the log durable, exit within 10 s\n"
    "  SIGHUP            read the configuration again, say what changed\n"
    "  SIGUSR1           hand over to many nodes, once --move-to has copied everything\n"
    "\n"
    "Exit codes\n"
    "  0   stopped as asked; --check and --test-config: all is well\n"
    "  1   could not start or go on; --check: the data is damaged\n"
    "  2   the command line or the configuration makes no sense\n"
    "\n"
    "Examples\n"
    "  tallyd                                        try it: ./data, ports 6380 and 3001\n"
    "  tallyd --data /var/lib/tally --workers 4      more cores, another folder\n"
    "  tallyd --resp 0.0.0.0:6380 --password-file p  for other machines as well\n"
    "  redis-cli -p 6380 INCR views                  count something\n"
    "  curl -X POST localhost:3001/v1/counters/views/add   the same from the web\n";

/* The explanation, broken between words and moved in. */
static void write_wrapped(struct buffer *to, const char *text)
{
    while (*text) {
        size_t room = LINE_WIDTH - HELP_FROM;
        size_t size = strlen(text);
        if (size > room) {
            size = room;
            while (size > 0 && text[size] != ' ')
                size--;
        }
        (void)buffer_printf(to, "%*s%.*s\n", (int)HELP_FROM, "", (int)size, text);
        text += size;
        text += strspn(text, " ");
    }
}

static bool is_number(enum value_kind kind)
{
    return kind == VALUE_BYTES || kind == VALUE_DURATION || kind == VALUE_COUNT;
}

static void write_setting(struct buffer *to, const struct config_setting *setting)
{
    char variable[CONFIG_VARIABLE_BYTES];
    if (setting->kind == VALUE_SECRET)
        (void)buffer_printf(to, "  %s=", config_variable(setting, variable));
    else
        (void)buffer_printf(to, "  --%s ", setting->name);
    (void)buffer_printf(to, "%s%s", value_noun(setting->kind, setting->limits),
                        setting->reloads ? " *" : "");

    if (setting->initial[0])
        (void)buffer_printf(to, "   (default %s", setting->initial);
    if (is_number(setting->kind) && setting->limits[0])
        (void)buffer_printf(to, "; %s", setting->limits);
    (void)buffer_printf(to, "%s\n", setting->initial[0] ? ")" : "");
    write_wrapped(to, setting->help);
}

static void write_action(struct buffer *to, const struct config_action_flag *flag)
{
    (void)buffer_printf(to, "  --%s%s\n", flag->name, flag->takes_folder ? " DIR" : "");
    write_wrapped(to, flag->help);
}

void help_write(struct buffer *to)
{
    assert(to);

    (void)buffer_printf(to, "%s", opening);
    const struct config_setting *setting = config_settings;
#define GROUP(heading) (void)buffer_printf(to, "\n%s\n", heading);
#define SETTING(...)   write_setting(to, setting++);
#include "server/settings.def"
#undef SETTING
#undef GROUP
    (void)buffer_printf(to, "\nInstead of running\n");
    for (size_t i = 0; i < CONFIG_ACTION_COUNT; i++)
        write_action(to, &config_action_flags[i]);
    (void)buffer_printf(to, "%s", closing);
}
