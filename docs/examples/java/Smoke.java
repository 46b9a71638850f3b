import com.google.protobuf.ByteString;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import rhumbline.v1.RhumblineGrpc;
import rhumbline.v1.RhumblineOuterClass.AppendAnswer;
import rhumbline.v1.RhumblineOuterClass.AppendItem;
import rhumbline.v1.RhumblineOuterClass.AppendRequest;
import rhumbline.v1.RhumblineOuterClass.AppendResponse;
import rhumbline.v1.RhumblineOuterClass.CreateStreamRequest;
import rhumbline.v1.RhumblineOuterClass.ReadRequest;
import rhumbline.v1.RhumblineOuterClass.ReadResponse;
import rhumbline.v1.RhumblineOuterClass.Record;

/** Creates a stream, appends two records and reads them decoded: {@code Smoke ADDRESS STREAM}. */
public final class Smoke {
  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel =
        ManagedChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
    try {
      RhumblineGrpc.newBlockingStub(channel)
          .withDeadlineAfter(20, TimeUnit.SECONDS)
          .createStream(request(arguments[1]));
      System.out.println("appended " + append(channel, arguments[1], "one", "two"));
      read(channel, arguments[1]);
    } finally {
      channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }
  }

  private static CreateStreamRequest request(String stream) {
    return CreateStreamRequest.newBuilder().setNamespace("default").setStream(stream).build();
  }

  private static int append(ManagedChannel channel, String stream, String... payloads)
      throws Exception {
    CompletableFuture<AppendResponse> answered = new CompletableFuture<>();
    StreamObserver<AppendRequest> call =
        RhumblineGrpc.newStub(channel).append(new First<>(answered));
    AppendItem.Builder item =
        AppendItem.newBuilder().setId(1).setNamespace("default").setStream(stream);
    for (String payload : payloads) {
      item.addPayloads(ByteString.copyFromUtf8(payload));
    }
    call.onNext(AppendRequest.newBuilder().addItems(item).build());
    AppendAnswer answer = answered.get(20, TimeUnit.SECONDS).getAnswers(0);
    call.onCompleted();
    if (answer.hasError()) {
      throw new IllegalStateException(answer.getError().getCode());
    }
    return answer.getRecordCounts(0);
  }

  private static void read(ManagedChannel channel, String stream) throws Exception {
    CompletableFuture<ReadResponse> records = new CompletableFuture<>();
    StreamObserver<ReadRequest> call = RhumblineGrpc.newStub(channel).read(new First<>(records));
    call.onNext(
        ReadRequest.newBuilder()
            .setNamespace("default")
            .setStream(stream)
            .setDecodesRecords(true)
            .setCreditRecords(10)
            .build());
    for (Record record : records.get(20, TimeUnit.SECONDS).getRecordsList()) {
      System.out.println(record.getPayload().toStringUtf8());
    }
    call.onCompleted();
  }

  /** Completes with the first response that has contents. */
  private record First<T>(CompletableFuture<T> found) implements StreamObserver<T> {
    @Override
    public void onNext(T response) {
      if (!(response instanceof ReadResponse read) || read.getRecordsCount() > 0) {
        found.complete(response);
      }
    }

    @Override
    public void onError(Throwable error) {
      found.completeExceptionally(error);
    }

    @Override
    public void onCompleted() {
      found.completeExceptionally(new IllegalStateException("the call ended"));
    }
  }
}
