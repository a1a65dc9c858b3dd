/* fuzz_config.c - any bytes as a configuration file.
 *
 * They are read, and then every value is written as text that reads as the
 * same value; or they are refused, with the file and the line. */
#include <stdlib.h>
#include <string.h>

#include "server/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_value(const struct config *config, const struct config_setting *setting)
{
    const void *value = (const char *)config + setting->offset;
    char text[VALUE_TEXT_MAX + 1];
    value_format(setting->kind, setting->limits, value, text, sizeof(text));

    union value again;
    check(value_parse(setting->kind, setting->limits, slice_of(text), &again, NULL) == ERR_OK);
    check(memcmp(&again, value, value_size(setting->kind)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct error error = {.text = ""};
    config_init(&config);
    enum err err = config_read_text(&config, "f", (struct slice){(const char *)data, size}, &error);
    check(err == ERR_OK || err == ERR_INVALID);
    if (err)
        check(strncmp(error.text, "f:", 2) == 0);
    for (size_t i = 0; i < CONFIG_COUNT; i++)
        check_value(&config, &config_settings[i]);
    return 0;
}
