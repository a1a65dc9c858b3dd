/* hot_model_test.c - the memory hot layer against a model of plain arrays. */
#include "contract/hot_model.h"

RUN(cmocka_unit_test(every_answer_is_what_the_model_says))
