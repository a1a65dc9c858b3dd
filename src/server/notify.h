/* notify.h - tells the service manager how we are, in systemd's protocol: a
 * datagram to the socket that NOTIFY_SOCKET names. Without one, nothing
 * happens. */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

#include <stdint.h>

void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notify_ready(void);
void notify_reloading(void); /* notify_ready() comes when it is done */
void notify_stopping(void);

/* The manager takes us for dead when it does not hear this in time. */
void notify_alive(void);

/* How often notify_alive() should be called; 0: nobody listens for it. */
uint64_t notify_alive_every_ms(void);

#endif
