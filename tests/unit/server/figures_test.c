#include "server/figures.h"

#include "unit/test.h"

#include <stdio.h>

/* The sanitizers bring an allocator of their own, which mallinfo() knows nothing of. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_IS_COUNTED false
#else
#define HEAP_IS_COUNTED true
#endif

TEST(the_process_has_memory_files_and_a_disk)
{
    struct metrics_process process;
    char folder[] = "/tmp";
    figures_process(folder, &process);
    assert_true(process.resident_bytes > 100000);
    assert_true(process.heap_bytes > 0 || !HEAP_IS_COUNTED);
    assert_true(process.open_files >= 3 && process.open_files <= process.open_files_max);
    assert_true(process.disk_bytes > 0 && process.disk_free_bytes <= process.disk_bytes);
}

TEST(an_open_file_is_counted)
{
    struct metrics_process before;
    struct metrics_process after;
    figures_process(NULL, &before);
    FILE *file = fopen("/dev/null", "r");
    assert_non_null(file);
    figures_process(NULL, &after);
    fclose(file);
    assert_int_equal(after.open_files, before.open_files + 1);
}

TEST(a_folder_that_is_not_there_has_no_disk)
{
    struct metrics_process process;
    char folder[] = "/nowhere/at/all";
    figures_process(folder, &process);
    assert_int_equal(process.disk_bytes, 0);
}

RUN(cmocka_unit_test(the_process_has_memory_files_and_a_disk),
    cmocka_unit_test(an_open_file_is_counted),
    cmocka_unit_test(a_folder_that_is_not_there_has_no_disk))
