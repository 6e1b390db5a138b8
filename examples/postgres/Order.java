// Commit an order and its event together, from Java with JDBC.
//
// usage: java -Dfile.encoding=UTF-8 -cp postgresql.jar Order.java \
//            'jdbc:postgresql://HOST/DATABASE?user=USER'

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;

public class Order {
    /** The shop does not accept the order. */
    static class RefusedException extends Exception {
        RefusedException(String message) {
            super(message);
        }
    }

    /** Inserts an order and its event: both are committed, or neither. */
    static long placeOrder(Connection db, String customer, long cents)
            throws SQLException, RefusedException {
        db.setAutoCommit(false);
        try (var insert = db.prepareStatement(
                     "INSERT INTO orders(customer, cents) VALUES (?, ?) RETURNING id");
             var enqueue = db.prepareStatement(
                     "SELECT wherry_enqueue('orders', json_build_object('order', id,"
                             + " 'customer', customer, 'cents', cents), key => id)"
                             + " FROM orders WHERE id = ?")) {
            insert.setString(1, customer);
            insert.setLong(2, cents);
            var row = insert.executeQuery();
            row.next();
            long order = row.getLong(1);
            enqueue.setLong(1, order);
            enqueue.executeQuery();
            if (cents > 100_000) {
                throw new RefusedException("order " + order + " is over the credit limit");
            }
            db.commit();
            return order;
        } catch (SQLException | RefusedException why) {
            db.rollback();
            throw why;
        }
    }

    public static void main(String[] args) throws SQLException {
        try (var db = DriverManager.getConnection(args[0])) {
            for (long cents : new long[] {4_200, 420_000}) {
                try {
                    long order = placeOrder(db, "Zoë \"Zed\" O'Hara \\ 漢字", cents);
                    System.out.println("committed: order " + order);
                } catch (RefusedException why) {
                    System.out.println("rolled back: " + why.getMessage());
                }
            }
        }
    }
}
