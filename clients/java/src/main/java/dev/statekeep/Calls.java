package dev.statekeep;

import com.google.protobuf.Message;
import io.grpc.Deadline;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * A connection, and how long its calls may take.
 *
 * @param timeout of a unary call
 * @param readTimeout of a whole streamed read that ends; null: none
 */
record Calls(Connection connection, Duration timeout, Duration readTimeout) {
  <Q extends Message, A> A answer(MethodDescriptor<Q, A> method, Q request) {
    return connection.answer(method, request, timeout);
  }

  <T> RecordStream<T> read(Place<?, T> place) {
    Deadline deadline =
        readTimeout == null ? null : Deadline.after(nanos(readTimeout), TimeUnit.NANOSECONDS);
    return RecordStream.open(connection, place, Patience.reading(), deadline);
  }

  <T> RecordStream<T> follow(Place<?, T> place, Duration retryFor) {
    return RecordStream.open(connection, place, Patience.following(retryFor), null);
  }

  /** The nanoseconds of a time; of one that has too many, as many as there are. */
  static long nanos(Duration time) {
    return TimeUnit.NANOSECONDS.convert(time);
  }

  /** An id by which the server knows a retry again. */
  static String newId() {
    return UUID.randomUUID().toString();
  }

  /** The id, or a new one in place of an empty one: without any, a retry would write twice. */
  static String idOr(String id) {
    return id.isEmpty() ? newId() : id;
  }
}
