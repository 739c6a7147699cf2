/**
 * The client of a Statekeep server: versioned values (memory), values that live as long as an
 * instance (scratch), and threads of events, checkpoints and branches (state).
 *
 * <p>It begins with {@link dev.statekeep.StatekeepClient}. Every call may throw a {@link
 * dev.statekeep.StatekeepException}. Calls take part in gRPC's {@link io.grpc.Context}: its
 * deadline and its cancellation end them, as does the interruption of the calling thread.
 */
package dev.statekeep;
