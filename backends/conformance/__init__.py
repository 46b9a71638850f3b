"""What every metadata store must do, as checks that anybody can run against their own store."""
