import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Finds scans of Quire's below a projection or a filter, and lets Python plan each anew with the columns and the
 * conditions that are left above it. The filter stays where it is, so a scan may give more rows than it keeps.
 *
 * Spark's own compiler of generated code compiles this file when a session first needs it.
 */
public class QuireScans extends Rule {
    private Function planner;

    public void use(Function planner) {
        this.planner = planner;
    }

    public TreeNode apply(TreeNode plan) {
        LogicalPlan given = (LogicalPlan) plan;
        if (this.planner == null || !mentions(given)) {
            return plan;
        }
        try {
            return walked(given);
        } catch (RuntimeException problem) {
            return plan;  // the plan as it is reads more and gives the same rows
        }
    }

    private boolean mentions(LogicalPlan plan) {
        if (isScan(plan)) {
            return true;
        }
        scala.collection.Iterator each = plan.children().iterator();
        while (each.hasNext()) {
            if (mentions((LogicalPlan) each.next())) {
                return true;
            }
        }
        return false;
    }

    private boolean isScan(LogicalPlan plan) {
        if (plan instanceof MapInArrow) {
            Expression function = ((MapInArrow) plan).functionExpr();
            return function instanceof PythonUDF && ((PythonUDF) function).name().startsWith("quire_scan:");
        }
        return plan instanceof DataSourceV2ScanRelation
            && ((DataSourceV2ScanRelation) plan).relation().table().name().equals("quire");
    }

    private LogicalPlan walked(LogicalPlan plan) {
        boolean narrows = plan instanceof Project || plan instanceof Aggregate;
        LogicalPlan below = narrows ? (LogicalPlan) plan.children().head() : plan;
        Filter filter = below instanceof Filter ? (Filter) below : null;
        LogicalPlan scan = filter == null ? below : (LogicalPlan) filter.children().head();
        if (isScan(scan) && (narrows || filter != null)) {
            LogicalPlan made = planned(scan, narrows ? plan : null, filter);
            if (made == null) {
                return plan;
            }
            LogicalPlan kept = filter == null ? made : with(filter, made);
            return narrows ? with(plan, kept) : kept;
        }
        List children = new ArrayList();
        scala.collection.Iterator each = plan.children().iterator();
        while (each.hasNext()) {
            children.add(walked((LogicalPlan) each.next()));
        }
        return children.isEmpty()
            ? plan
            : (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
    }

    private LogicalPlan with(LogicalPlan plan, LogicalPlan child) {
        List children = new ArrayList();
        children.add(child);
        return (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
    }

    private LogicalPlan planned(LogicalPlan scan, LogicalPlan above, Filter filter) {
        List names = new ArrayList();
        List known = new ArrayList();
        scala.collection.Iterator each = scan.output().iterator();
        while (each.hasNext()) {
            Attribute one = (Attribute) each.next();
            known.add(one);
            if (above == null
                || above.references().contains((NamedExpression) one)
                || filter != null && filter.references().contains((NamedExpression) one)) {
                names.add(one.name());
            }
        }
        List request = new ArrayList();
        request.add(scan);
        request.add(names);
        request.add(filter == null ? null : plain(filter.condition()).toJSON());
        LogicalPlan made = (LogicalPlan) this.planner.apply(request);
        if (made == null) {
            return null;
        }
        List same = new ArrayList();
        scala.collection.Iterator columns = made.output().iterator();
        while (columns.hasNext()) {
            Attribute column = (Attribute) columns.next();
            Attribute meant = null;
            for (int i = 0; i < known.size(); i++) {
                if (((Attribute) known.get(i)).name().equals(column.name())) {
                    meant = (Attribute) known.get(i);
                }
            }
            if (meant == null || !meant.dataType().equals(column.dataType())) {
                return null;
            }
            same.add(new Alias(
                column,
                meant.name(),
                meant.exprId(),
                meant.qualifier(),
                scala.Option.empty(),
                CollectionConverters.asScala((List) new ArrayList()).toSeq()));
        }
        return new Project(CollectionConverters.asScala(same).toSeq(), made);
    }

    /** Conditions whose JSON says everything: sets as lists, times as microseconds. */
    private Expression plain(Expression given) {
        if (given instanceof Literal) {
            Literal literal = (Literal) given;
            boolean isTime = literal.dataType() instanceof TimestampType || literal.dataType() instanceof TimestampNTZType;
            return isTime ? new Literal(literal.value(), LongType$.MODULE$) : literal;
        }
        if (given instanceof InSet) {
            InSet set = (InSet) given;
            List values = new ArrayList();
            scala.collection.Iterator each = set.hset().iterator();
            while (each.hasNext()) {
                values.add(plain(new Literal(each.next(), set.child().dataType())));
            }
            return new In(set.child(), CollectionConverters.asScala(values).toSeq());
        }
        List children = new ArrayList();
        scala.collection.Iterator each = given.children().iterator();
        while (each.hasNext()) {
            children.add(plain((Expression) each.next()));
        }
        return children.isEmpty()
            ? given
            : (Expression) given.withNewChildren(CollectionConverters.asScala(children).toSeq());
    }
}
