#include "cli/folders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(path, 0700);
        *slash = '/';
    }
}

bool folders_state(const char *name, char *to, size_t size)
{
    const char *folder = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (folder && folder[0] == '/')
        (void)snprintf(to, size, "%s/tally/%s", folder, name);
    else if (home && home[0] == '/')
        (void)snprintf(to, size, "%s/.local/state/tally/%s", home, name);
    else
        return false;
    make_folders(to);
    return true;
}
