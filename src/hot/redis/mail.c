#include "hot/redis/mail.h"

#include <assert.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/memory.h"
#include "net/waker.h"

struct letter {
    mail_fn *run;
    void *arg;
};

struct pile {
    struct letter *letters;
    size_t count;
    size_t capacity;
};

struct mail {
    struct lock lock; /* of `box` and `shut` */
    struct pile box;
    bool shut;
    struct pile being_read; /* the loop's thread's own */
    struct waker *waker;
};

static void woken(void *arg)
{
    mail_read(arg);
}

struct mail *mail_new(struct loop *loop, struct error *error)
{
    struct mail *mail = memory_take_zeroed(sizeof(*mail));
    lock_init(&mail->lock);
    mail->waker = waker_new(loop, woken, mail, error);
    if (!mail->waker) {
        mail_free(mail);
        return NULL;
    }
    return mail;
}

void mail_free(struct mail *mail)
{
    if (!mail)
        return;
    waker_free(mail->waker);
    free(mail->box.letters);
    free(mail->being_read.letters);
    lock_done(&mail->lock);
    free(mail);
}

static void put(struct pile *pile, struct letter letter)
{
    if (pile->count == pile->capacity) {
        pile->capacity = pile->capacity == 0 ? 64 : pile->capacity * 2;
        pile->letters = memory_resize(pile->letters, pile->capacity * sizeof(*pile->letters));
    }
    pile->letters[pile->count++] = letter;
}

bool mail_post(struct mail *mail, mail_fn *run, void *arg)
{
    assert(mail && run);

    lock_take(&mail->lock);
    bool is_first = mail->box.count == 0;
    bool shut = mail->shut;
    if (!shut)
        put(&mail->box, (struct letter){run, arg});
    lock_release(&mail->lock);
    if (!shut && is_first)
        waker_wake(mail->waker);
    return !shut;
}

void mail_shut(struct mail *mail)
{
    lock_take(&mail->lock);
    mail->shut = true;
    lock_release(&mail->lock);
}

void mail_read(struct mail *mail)
{
    assert(mail->being_read.count == 0);

    lock_take(&mail->lock);
    struct pile full = mail->box;
    mail->box = mail->being_read;
    lock_release(&mail->lock);

    for (size_t i = 0; i < full.count; i++)
        full.letters[i].run(full.letters[i].arg);
    full.count = 0;
    mail->being_read = full;
}
