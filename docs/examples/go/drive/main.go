// Command drive appends or reads numbered records, for tests:
//
//	drive append SEEDS NAMESPACE STREAM COUNT PAUSE_MS
//	drive read   SEEDS NAMESPACE STREAM COUNT
//
// SEEDS are addresses of proxies, separated by commas. It prints one line per record: its number and
// its position. The variables CA, SERVER_NAME and TOKEN are for proxies with TLS.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"example.com/rhumbline/rhumbline"
	pb "example.com/rhumbline/rhumblinev1"
)

func main() {
	ctx := context.Background()
	namespace, stream := os.Args[3], os.Args[4]
	count, err := strconv.Atoi(os.Args[5])
	check(err)
	client, err := rhumbline.Dial(ctx, strings.Split(os.Args[2], ","), security()...)
	check(err)
	defer client.Close()
	if os.Args[1] == "read" {
		read(ctx, client.Reader(namespace, stream, nil), count)
		return
	}
	pause, err := strconv.Atoi(os.Args[6])
	check(err)
	write(ctx, client.Producer(namespace, stream), count, time.Duration(pause)*time.Millisecond)
}

func security() []grpc.DialOption {
	if os.Getenv("CA") == "" {
		return nil
	}
	pem, err := os.ReadFile(os.Getenv("CA"))
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots, ServerName: os.Getenv("SERVER_NAME")}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithPerRPCCredentials(rhumbline.Token(os.Getenv("TOKEN"))),
	}
}

func write(ctx context.Context, producer *rhumbline.Producer, count int, pause time.Duration) {
	appended := make(chan *rhumbline.Pending, count)
	go func() {
		for i := range count {
			number := strconv.Itoa(i)
			attributes := &pb.RecordAttributes{Key: []byte(number)}
			if i%2 == 0 {
				attributes = nil
			}
			pending, err := producer.Append(ctx, []byte(number), attributes)
			check(err)
			appended <- pending
			time.Sleep(pause)
		}
		close(appended)
	}()
	i := 0
	for pending := range appended {
		position, err := pending.Position(ctx)
		check(err)
		show(strconv.Itoa(i), position)
		i++
	}
	check(producer.Close())
}

func read(ctx context.Context, reader *rhumbline.Reader, count int) {
	defer reader.Close()
	for range count {
		record, err := reader.Next(ctx)
		check(err)
		if number := string(record.Payload); record.Key != nil && number != string(record.Key) {
			log.Fatalf("record %s has the key %s", number, record.Key)
		}
		show(string(record.Payload), record.Position)
	}
}

func show(number string, position *pb.Position) {
	fmt.Printf("%s %d:%d:%d\n", number, position.GetLssn(), position.GetEntryId(), position.GetSlot())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
