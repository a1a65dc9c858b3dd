/* export.h - all counters and reactions as NDJSON.
 *
 *   {"tally":"export","version":1,...}                      first line
 *   {"counter":"views","value":"42","shards":4}             settings only where they were chosen
 *   {"item":"video1","user":"ann","kind":"like"}
 *   {"cursor":{...}}                                       all above is whole; --resume goes on
 * here
 *   {"end":{"counters":1,"reactions":1}}                  last line: nothing is missing */
#ifndef CLI_EXPORT_H
#define CLI_EXPORT_H

#include "cli/command.h"

command_fn export_run;

#endif
