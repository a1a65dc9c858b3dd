/* statements.h - every SQL statement of the store: those that write, those that read, those of
 * moving. */
#ifndef STORE_POSTGRES_STATEMENTS_H
#define STORE_POSTGRES_STATEMENTS_H

#include "store/postgres/sql_move.h"
#include "store/postgres/sql_read.h"
#include "store/postgres/sql_write.h"

#define STATEMENT_LIST(X) SQL_WRITE(X) SQL_READ(X) SQL_MOVE(X)

enum statement {
#define X(name, sql) name,
    STATEMENT_LIST(X)
#undef X
        STATEMENT_COUNT
};

#endif
